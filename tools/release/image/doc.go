// SPDX-License-Identifier: Apache-2.0

// Command image writes a container image from scratch for several platforms as an OCI layout:
//
//	image -version 1.2.3 -revision COMMIT -epoch SECONDS -output DIR -file PATH=FILE... linux/amd64=BINARY...
//
// The image has the program, the certificates of public authorities, the files of -file, and an
// empty /data and /tmp. It needs neither an engine nor a registry. Equal arguments give equal bytes.
package main

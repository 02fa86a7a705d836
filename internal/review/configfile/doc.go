// SPDX-License-Identifier: Apache-2.0

// Package configfile reads the files of a repository that are not source code but determine the telemetry of its services:
// manifests, container and deployment files, configurations of loggers, SDKs and Collectors.
//
// Content is hostile. The work is linear in the size of a file, whatever its aliases, merges and nesting, and what a
// file yields is bounded. Ranges are byte offsets of the file, also for a document within a document such as the
// Collector configuration in a ConfigMap.
package configfile

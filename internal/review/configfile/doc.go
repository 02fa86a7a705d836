// SPDX-License-Identifier: Apache-2.0

// Package configfile parses the configuration files of a repository that affect the telemetry of its services:
// manifests, container and deployment files, and configurations of loggers, SDKs and Collectors.
//
// Files are untrusted. The work is linear in the size of a file, regardless of aliases, merges and nesting, and the
// number of results per file is limited. Ranges are byte offsets in the file, also for nested documents such as a
// Collector configuration in a ConfigMap.
package configfile

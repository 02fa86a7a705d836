// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs programs that read repository content, and scripts that run code of repositories.
//
// Run is for programs that are trusted and read hostile data: git, and the program itself for the review. A program runs
// in its own process group with resource limits, a small environment, bounded output and a context that kills the
// whole group. On Linux the limits are set before the program reads anything: the child is this program, which sets them
// and then executes the other one (Main). A program without network runs in its own network namespace where the
// kernel permits that to the user; elsewhere the program itself must not use the network. On other systems only the time
// and the output are limited.
//
// A Container is for hostile code, such as the tests of a repository. It has several layers, each of which blocks most
// attacks without the other layers:
//
//   - bubblewrap (container_linux.go) creates namespaces for users, processes, mounts, the network, IPC and the host name,
//     without capabilities and without further user namespaces. Files are in a file system in memory of limited size; all
//     else is read-only. If this process runs as root, a child first bind-mounts the files that bubblewrap needs and
//     switches to an unprivileged user (stage_linux.go).
//   - This program is the first process in the container (init_linux.go): the kernel protects it from the other
//     processes, and kills them when it ends. It ends with this process at the latest. It creates the listeners
//     through which this process serves the container, and sends them over a socket pair, so the container needs no path
//     to this process. It ends the container at the limits for memory and files.
//   - The script has resource limits, a Landlock domain and a filter of system calls (confine_linux.go).
//
// A machine without bubblewrap or user namespaces has no containers, and no code runs. Without Landlock, the other layers
// remain. The kernel's memory for sockets and pipes is limited by their number only. If the machine runs other workloads,
// limit the memory of this process with systemd or a container.
package sandbox

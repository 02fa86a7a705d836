// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs programs that read repository content, and scripts that run code of repositories.
//
// Run is for programs that are trusted and read hostile data: git, and the program itself for the review. A program runs
// in a process group of its own with resource limits, a small environment, bounded output and a context that kills the
// whole group. On Linux the limits are set before the program reads anything: the child is this program, which sets them
// and then executes the other one (Main). A program without network runs in a network namespace of its own where the
// kernel permits that to the user; elsewhere the program itself must not use the network. On other systems only the time
// and the output are limited.
//
// A Container is for hostile code, such as the tests of a repository. Its layers, each of which alone keeps the code from
// most of what it must not do:
//
//   - bubblewrap (container_linux.go) creates namespaces for users, processes, mounts, the network, IPC and the host name,
//     without capabilities and without further user namespaces. Files are in a file system in memory of limited size; all
//     else is read-only. If this process is root's, a child shows bubblewrap the files that it needs and becomes another
//     user before (stage_linux.go).
//   - This program is the first process in the container (init_linux.go): the kernel protects it from the others, and
//     kills them when it ends, which it does with this process at the latest. It creates the listeners through which this
//     process serves the container, and sends them over a socket pair, so the container needs no path to this process. It
//     ends the container at the limits for memory and files.
//   - The script has resource limits, a Landlock domain and a filter of system calls (confine_linux.go).
//
// A machine without bubblewrap or user namespaces has no containers, and no code runs. Without Landlock, the other layers
// remain. The kernel's memory for sockets and pipes is limited by their number only: give this process a limit of its own,
// by systemd or a container, if the machine has other work.
package sandbox

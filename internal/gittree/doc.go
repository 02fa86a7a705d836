// SPDX-License-Identifier: Apache-2.0

// Package gittree limits the files that git writes to a directory for the tree of a commit. A tree is hostile: a small one may list
// files without end, and attributes may make git write files that are many times larger than they are stored.
package gittree

// SPDX-License-Identifier: Apache-2.0

// Package source reads repositories of source hosts: kind git (any clone URL), kind local (directories that the
// operator has allowed), and the kinds github, gitlab and gitea, whose hosts have an API. A Host is one kind of the
// first two. A forge is one of the others: it has users authorize it, lists repositories, provides the credential with
// which kind git reads them, and checks webhooks.
//
// Everything that a host sends is hostile: names, commits, contents and error messages. Repositories are fetched by the
// git binary (git.go) with a configuration of its own, without hooks, submodules and other protocols, in a sandbox with
// limits, and only files within the limits are checked out or copied (copy.go). Names are resolved once, checked (address.go), and pinned for
// git, which follows no redirects: so no request reaches a private network by DNS or by an answer of the host.
//
// Credentials are sealed in the store (credential.go). They reach git in files of a private directory that ends with
// the command, and appear in no argument, URL, environment, log or error.
package source

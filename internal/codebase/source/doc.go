// SPDX-License-Identifier: Apache-2.0

// Package source reads repositories from source hosts. The kinds are git (any clone URL), local (directories that the
// operator allows), and github, gitlab and gitea, whose hosts have an API. Host is the interface of git and local.
// forge is the interface of the kinds with an API: a forge lets users authorize access, lists repositories, provides
// the credential with which kind git reads them, and checks webhooks.
//
// All data from a host is untrusted: names, commits, contents and error messages. The git binary fetches repositories
// (git.go) in a sandbox with limits, with its own configuration, and without hooks, submodules and other protocols.
// Only files within the limits are checked out or copied (copy.go). Names are resolved once, checked (address.go), and
// pinned for git, which follows no redirects. So neither DNS nor an answer of the host can direct a request to a
// private network.
//
// Credentials are encrypted in the store (credential.go). They are passed to git in files of a private directory, which
// is removed after the command, and appear in no argument, URL, environment variable, log or error.
package source

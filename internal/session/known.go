// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"

	"assay"
)

// maxKnown limits the sessions that a server remembers. Beyond it, any is forgotten.
const maxKnown = 10_000

// knownSessions remembers the organizations of sessions that were found lately. Their next lookups take the turns of
// their organization at the store. Lookups of other cookies, which any client can make up, take those of
// assay.Anonymous, so a flood of them does not delay users. It is safe for concurrent use.
type knownSessions struct {
	mu            sync.Mutex
	organizations map[[32]byte]string // by hash of the token
}

// organization returns the organization of a session, or assay.Anonymous if it is not known.
func (k *knownSessions) organization(hash [32]byte) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if organization, ok := k.organizations[hash]; ok {
		return organization
	}
	return assay.Anonymous
}

// set remembers a session. An organization of "" forgets it.
func (k *knownSessions) set(hash [32]byte, organization string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if organization == "" {
		delete(k.organizations, hash)
		return
	}
	if k.organizations == nil {
		k.organizations = make(map[[32]byte]string)
	}
	k.organizations[hash] = organization
	for other := range k.organizations {
		if len(k.organizations) <= maxKnown {
			break
		}
		if other != hash {
			delete(k.organizations, other)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"
)

// organization is the world of one organization.
type organization struct {
	used uint64 // of server.uses, guarded by server.mu

	mu            sync.Mutex // guards what follows
	id            string
	now           time.Time // of the request that is answered; never goes back
	installations []*installation
	repositories  map[string]*repository // by id
	limit         int                    // of active repositories
	runs          []*run                 // oldest first
	made          int                    // runs that were ever made
	findings      []*finding             // oldest first; at most one of each kind and repository
	onboarding    onboarding
}

// newID returns the id of something in the organization. The same things have
// other ids in other organizations.
func (o *organization) newID(kind string, of ...string) string {
	sum := sha256.Sum256([]byte(o.id + "\x00" + kind + "\x00" + strings.Join(of, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:6])
}

// settle brings the organization to a moment: runs begin and end. Runs of one
// repository follow each other in the order of the list, so what one leaves is there
// when the next begins.
func (o *organization) settle(now time.Time) {
	if now.After(o.now) {
		o.now = now
	}
	for _, r := range o.runs {
		if r.timeline == nil && !o.now.Before(r.starts) {
			o.begin(r)
		}
		if r.timeline != nil && !r.done && !o.now.Before(r.ends) {
			o.finish(r)
		}
	}
}

// active returns the number of active repositories.
func (o *organization) active() int {
	n := 0
	for _, r := range o.repositories {
		if r.active {
			n++
		}
	}
	return n
}

// find returns the run with an id, nil for none.
func (o *organization) find(id string) *run {
	for _, r := range o.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

// nextRunID returns an id that no run of the organization has had.
func (o *organization) nextRunID() string {
	o.made++
	return o.newID("run", number(o.made))
}

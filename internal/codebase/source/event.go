// SPDX-License-Identifier: Apache-2.0

package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay"
)

// Kinds of events. Events that are ignored have the kind "".
const (
	EventPush         = "push"
	EventDeleted      = "deleted"      // an installation was removed
	EventSuspended    = "suspended"    // an installation was suspended
	EventRestored     = "restored"     // a suspended installation was restored
	EventRepositories = "repositories" // the repositories of an installation changed
)

// Event is the content of a webhook of a source host.
type Event struct {
	Kind           string
	InstallationID string // id at the host

	Repository string // full name, of EventPush
	Branch     string // pushed branch; "" for a tag or a deletion
	Default    string // default branch; "" if unknown
	Commit     string // newest commit of the branch

	Added, Removed []string // full names, of EventRepositories
}

var (
	errEvent     = assay.Errorf(assay.CodeInvalid, "the body is not an event of the source host")
	errSignature = assay.Errorf(assay.CodeForbidden, "the signature is missing or not valid")
)

// signatureAge is the maximum age of a signature with a timestamp.
const signatureAge = 5 * time.Minute

// Webhooks reports whether the host of a kind is configured and its webhooks are accepted.
func (s *Sources) Webhooks(kind string) bool {
	f := s.forges[kind]
	return f != nil && f.host().cfg.WebhookSecret != ""
}

// Event checks the signature of a webhook and returns its event. The error has CodeForbidden for an invalid signature,
// and CodeInvalid for an invalid body.
func (s *Sources) Event(kind string, header http.Header, body []byte) (*Event, error) {
	if !s.Webhooks(kind) {
		return nil, errSignature
	}
	f := s.forges[kind]
	if !signed(kind, string(f.host().cfg.WebhookSecret), header, body, s.now()) {
		return nil, errSignature
	}
	return f.event(header, body)
}

// signed reports whether a webhook has a valid signature for its kind of host. Comparisons take constant time.
func signed(kind, secret string, header http.Header, body []byte, now time.Time) bool {
	switch kind {
	case KindGitHub:
		return hmac.Equal([]byte(header.Get("X-Hub-Signature-256")), []byte("sha256="+hex.EncodeToString(sum(secret, body))))
	case KindGitea:
		return hmac.Equal([]byte(header.Get("X-Gitea-Signature")), []byte(hex.EncodeToString(sum(secret, body))))
	}
	if header.Get("Webhook-Signature") == "" {
		a, b := sha256.Sum256([]byte(header.Get("X-Gitlab-Token"))), sha256.Sum256([]byte(secret))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
	// Standard Webhooks, which GitLab uses for a signing token.
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signatureAge {
		return false
	}
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			secret = string(key)
		}
	}
	want := []byte("v1," + base64.StdEncoding.EncodeToString(sum(secret, []byte(id+"."+at+"."), body)))
	valid := false
	for given := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		valid = hmac.Equal([]byte(given), want) || valid
	}
	return valid
}

func sum(secret string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// pushEvent has the fields of a push that are the same for all hosts.
type pushEvent struct {
	Ref   string `json:"ref"`
	After string `json:"after"`
}

func (p *pushEvent) push(repository, branch string) *Event {
	e := &Event{Kind: EventPush, Repository: repository, Default: branch}
	if pushed, ok := strings.CutPrefix(p.Ref, "refs/heads/"); ok && commitName.MatchString(p.After) && strings.Trim(p.After, "0") != "" {
		e.Branch, e.Commit = pushed, p.After
	}
	return e
}

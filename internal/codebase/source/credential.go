// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"strings"
	"time"

	"assay"
)

// sealPurpose separates the encryption key for credentials from other keys that are derived from the same secret.
const sealPurpose = "assay: credentials of source hosts, AES-256-GCM"

// Limits of the parts of a credential, in bytes.
const (
	maxToken = 4 << 10
	maxKey   = 16 << 10
)

// Credential is the credential for a source host. Its fields are secret.
type Credential struct {
	Username   string `json:"username,omitempty"`    // for a token; "" if the host ignores it
	Token      string `json:"token,omitempty"`       // password or access token, for https
	SSHKey     string `json:"ssh_key,omitempty"`     // private key in PEM, for ssh
	KnownHosts string `json:"known_hosts,omitempty"` // for ssh; "" accepts and stores the keys of the first connection

	// For a token of an OAuth application.
	RefreshToken string    `json:"refresh_token,omitempty"` // can be redeemed once
	Expires      time.Time `json:"expires,omitzero"`
	Refreshing   time.Time `json:"refreshing,omitzero"` // when a process began to redeem the refresh token
}

// String hides the credential from logs.
func (Credential) String() string { return "[credential]" }

// GoString hides the credential from logs.
func (Credential) GoString() string { return "[credential]" }

func (c Credential) empty() bool { return c.Token == "" && c.SSHKey == "" }

// Same reports whether two credentials give the same access.
func (c Credential) Same(other Credential) bool {
	return c.Username == other.Username && c.Token == other.Token && c.SSHKey == other.SSHKey
}

// check validates the credential for a URL with scheme ssh or https. The values must fit on a line of the configuration
// of git, or in a key file.
func (c Credential) check(ssh bool) error {
	printable := func(s string) bool {
		return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	switch {
	case !printable(c.Username) || len(c.Username) > 256 || strings.Contains(c.Username, ":"):
		return unprocessable("username", "must have at most 256 bytes, without control characters and colons")
	case !printable(c.Token) || len(c.Token) > maxToken:
		return unprocessable("token", "must have at most 4096 bytes, without control characters")
	case len(c.SSHKey) > maxKey || c.SSHKey != "" && !strings.HasPrefix(strings.TrimSpace(c.SSHKey), "-----BEGIN "):
		return unprocessable("ssh_key", "must be a private key in PEM")
	case len(c.KnownHosts) > maxKey:
		return unprocessable("known_hosts", "must have at most 16384 bytes")
	case ssh && c.Token != "":
		return unprocessable("token", "is for https URLs; ssh needs ssh_key")
	case ssh && c.SSHKey == "":
		return unprocessable("ssh_key", "is required for an ssh URL")
	case !ssh && (c.SSHKey != "" || c.KnownHosts != ""):
		return unprocessable("ssh_key", "is for ssh URLs; https needs token")
	}
	return nil
}

// Seal encrypts the credential of an installation for the store. It returns nil for an empty credential.
func (s *Sources) Seal(installationID string, c Credential) ([]byte, error) {
	if c.empty() {
		return nil, nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return s.box.Seal(nil, installationID, text), nil
}

// Open decrypts the credential of an installation. It returns an empty credential if none is stored.
func (s *Sources) Open(i *assay.Installation) (Credential, error) {
	var c Credential
	if len(i.Credential) == 0 {
		return c, nil
	}
	text, err := s.box.Open(i.ID, i.Credential)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, &assay.Error{Code: assay.CodeUnprocessable, Message: "the stored credential cannot be decrypted with the server's secret key; connect the repository again", Err: err}
	}
	return c, nil
}

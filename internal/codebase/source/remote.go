// SPDX-License-Identifier: Apache-2.0

package source

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// remote is a clone URL that git, curl and ssh parse in the same way.
type remote struct {
	scheme string // https, ssh or file
	user   string // of ssh
	host   string // name or address, without brackets
	port   string // "" for the default
	path   string // escaped, with a leading slash
}

const maxURL = 1024 // bytes

var (
	scpLike    = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*):([A-Za-z0-9_~.][^:]*)$`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)
	userName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	remotePath = regexp.MustCompile(`^(/[A-Za-z0-9_~.+@-][A-Za-z0-9_~.+@%-]*)+$`)
)

// parseRemote parses a clone URL: https, ssh, or user@host:path. It rejects URLs that git, curl and ssh may parse
// differently.
func parseRemote(s string) (*remote, error) {
	bad := func(text string) (*remote, error) { return nil, unprocessable("url", text) }
	if len(s) > maxURL {
		return bad("must have at most " + strconv.Itoa(maxURL) + " bytes")
	}
	if m := scpLike.FindStringSubmatch(s); m != nil && !strings.Contains(s, "://") {
		s = "ssh://" + m[1] + m[2] + "/" + m[3]
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return bad("must be a URL")
	case u.Scheme != "https" && u.Scheme != "ssh":
		return bad("must begin with https:// or ssh://")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "":
		return bad("must be without query and fragment")
	}
	r := &remote{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: u.Port(), path: strings.TrimRight(u.EscapedPath(), "/")}
	if u.User != nil {
		_, password := u.User.Password()
		if u.Scheme != "ssh" || password {
			return bad("must be without a user and password; send them as username and token")
		}
		r.user = u.User.Username()
	}
	if r.scheme == "ssh" && r.user == "" {
		r.user = "git"
	}
	if a, err := netip.ParseAddr(r.host); err == nil && a.Zone() == "" {
		r.host = a.String()
	} else if !hostName.MatchString(r.host) || len(r.host) > 253 {
		return bad("has a host that is not a name")
	}
	if n, err := strconv.Atoi(r.port); r.port != "" && (err != nil || n < 1 || n > 65535) {
		return bad("has an invalid port")
	}
	switch {
	case r.scheme == "ssh" && !userName.MatchString(r.user):
		return bad("has an invalid user")
	case !remotePath.MatchString(r.path) || strings.Contains(r.path+"/", "/../") || strings.Contains(r.path+"/", "/./"):
		return bad("must have the path of a repository")
	case len(r.name()) > 255:
		return bad("has a path that is too long")
	}
	return r, nil
}

// authority returns the host and the port as in a URL.
func (r *remote) authority() string {
	if r.port != "" {
		return net.JoinHostPort(r.host, r.port)
	}
	if strings.Contains(r.host, ":") {
		return "[" + r.host + "]"
	}
	return r.host
}

// String returns the URL, which contains no secret.
func (r *remote) String() string {
	switch r.scheme {
	case "ssh":
		return "ssh://" + r.user + "@" + r.authority() + r.path
	case "file":
		return "file://" + r.path
	default:
		return r.scheme + "://" + r.authority() + r.path
	}
}

// name returns the repository's name at its host: "owner/name".
func (r *remote) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.path, "/"), ".git")
}

// account returns the host and the owner.
func (r *remote) account() string {
	owner := r.name()
	owner = owner[:max(strings.LastIndexByte(owner, '/'), 0)]
	account := strings.TrimSuffix(r.authority()+"/"+owner, "/")
	return account[:min(len(account), 256)]
}

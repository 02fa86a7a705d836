// SPDX-License-Identifier: Apache-2.0

package source

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRemote(t *testing.T) {
	for _, c := range []struct{ url, want, name, account string }{
		{"https://github.com/acme/shop", "https://github.com/acme/shop", "acme/shop", "github.com/acme"},
		{"https://GitHub.com:8443/acme/group/shop.git/", "https://github.com:8443/acme/group/shop.git", "acme/group/shop", "github.com:8443/acme/group"},
		{"https://example.com/shop", "https://example.com/shop", "shop", "example.com"},
		{"https://[2606:2800::1]/a/b", "https://[2606:2800::1]/a/b", "a/b", "[2606:2800::1]/a"},
		{"git@github.com:acme/shop.git", "ssh://git@github.com/acme/shop.git", "acme/shop", "github.com/acme"},
		{"ssh://deploy@example.com:2222/srv/shop", "ssh://deploy@example.com:2222/srv/shop", "srv/shop", "example.com:2222/srv"},
	} {
		r, err := parseRemote(c.url)
		require.NoError(t, err, c.url)
		require.Equal(t, c.want, r.String())
		require.Equal(t, c.name, r.name())
		require.Equal(t, c.account, r.account())
		again, err := parseRemote(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
	}
	for _, bad := range []string{
		"", "shop", "http://example.com/a", "git://example.com/a", "file:///etc", "ext::sh -c id", "/etc", "https:///a", "https://example.com", "https://example.com/",
		"https://u@example.com/a", "https://u:p@example.com/a", "ssh://u:p@example.com/a", "ssh://-oProxyCommand=id@example.com/a", "ssh://-oProxyCommand=id/a",
		"-oProxyCommand=id@host:a", "git@-host:a", "https://example.com/a?b", "https://example.com/a#b", "https://example.com/../a", "https://example.com/a/./b", "https://example.com/a//b",
		"https://example.com/a\nb", "https://exa mple.com/a", "https://example.com:0/a", "https://example.com:99999/a", "https://example.com:x/a",
		"https://example..com/a", "https://example.com./a", "git@example.com.:a", "https://[::1%25eth0]/a", "https://exämple.com/a", "https://example.com\\@127.0.0.1/a", "https://example.com/-a", "https://example.com/" + strings.Repeat("a", 2000),
	} {
		r, err := parseRemote(bad)
		if strings.HasSuffix(bad, "/-a") { // behind a slash a hyphen is no option
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "%s: %v", bad, r)
	}
}

// FuzzParseRemote: an accepted URL parses the same with net/url, and is not an option of a command.
func FuzzParseRemote(f *testing.F) {
	for _, s := range []string{"https://github.com/acme/shop.git", "git@github.com:acme/shop.git", "ssh://a@b:22/c", "https://[::1]/a", "-x@y:z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRemote(s)
		if err != nil {
			return
		}
		u, err := url.Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r.host, u.Hostname())
		require.Equal(t, r.path, u.EscapedPath())
		require.False(t, strings.HasPrefix(r.host, "-") || strings.HasPrefix(r.user, "-"))
		require.False(t, strings.ContainsAny(r.String(), " \n\r\t\"'\\$`;|&<>(){}"))
	})
}

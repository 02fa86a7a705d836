// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type element struct {
	Key  Secret
	Attr Secret `xml:",attr"`
}

func TestSecretIsMaskedEverywhere(t *testing.T) {
	type carrier struct {
		Key Secret
		Ptr *Secret
		Map map[string]Secret
	}
	s := Secret("hunter2-hunter2")
	c := carrier{s, &s, map[string]Secret{"k": s}}

	var out bytes.Buffer
	for _, verb := range "vsqxXdtbcoOUeEfFgG" {
		for _, flag := range []string{"", "+", "#", "-40", ".3", " "} {
			fmt.Fprintf(&out, "%"+flag+string(verb)+"\n", s)
			require.Equal(t, mask, fmt.Sprintf("%"+flag+string(verb), s))
		}
	}
	fmt.Fprintf(&out, "%v %+v %#v %s\n", c, c, c, c)
	fmt.Fprintln(&out, s, s.String(), s.GoString(), errors.New("bad key "+s.String()))

	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("m", "key", s, "carrier", c, slog.Group("g", "key", s))
	}
	b, err := json.Marshal(c)
	require.NoError(t, err)
	out.Write(b)
	b, err = xml.Marshal(element{s, s})
	require.NoError(t, err)
	out.Write(b)
	b, err = yaml.Marshal(c)
	require.NoError(t, err)
	out.Write(b)
	require.NoError(t, gob.NewEncoder(&out).Encode(struct{ Key Secret }{s}))

	require.NotContains(t, out.String(), "hunter")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "hunter"))
	require.Contains(t, out.String(), mask)
	require.Equal(t, "hunter2-hunter2", string(s))
}

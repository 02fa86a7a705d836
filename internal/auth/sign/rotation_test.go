// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/pkg/client/rp"

	"assay/internal/store/sqlite"
)

// replicas serves the JWKS of "http://<index>/".
type replicas []*Signer

func (rs replicas) RoundTrip(r *http.Request) (*http.Response, error) {
	i, err := strconv.Atoi(r.URL.Hostname())
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	rs[i].JWKS().ServeHTTP(w, r)
	return w.Result(), nil
}

// verifier is a backend that checks tokens.
type verifier interface {
	verify(token *jwt.JSONWebToken, raw string) error
}

// cachingVerifier caches the JWKS of one replica for the maximum time and does not refetch for an unknown
// key.
type cachingVerifier struct {
	client  *http.Client
	url     string
	brief   bool // only checks that the key is known
	set     jose.JSONWebKeySet
	expires time.Time
}

var maxAgeOf = regexp.MustCompile(`max-age=(\d+)`)

func (p *cachingVerifier) verify(token *jwt.JSONWebToken, _ string) error {
	if !time.Now().Before(p.expires) {
		res, err := p.client.Get(p.url)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		match := maxAgeOf.FindStringSubmatch(res.Header.Get("Cache-Control"))
		if match == nil {
			return errors.New("no max-age")
		}
		age, err := time.ParseDuration(match[1] + "s")
		if err != nil {
			return err
		}
		p.expires = time.Now().Add(age)
		p.set = jose.JSONWebKeySet{}
		if err := json.NewDecoder(res.Body).Decode(&p.set); err != nil {
			return err
		}
	}
	if p.brief {
		if len(p.set.Key(token.Headers[0].KeyID)) == 0 {
			return errors.New("an unknown key")
		}
		return nil
	}
	var claims jwt.Claims
	if err := token.Claims(&p.set, &claims); err != nil {
		return err
	}
	return claims.ValidateWithLeeway(jwt.Expected{Issuer: testIssuer, AnyAudience: jwt.Audience{testAudience}, Time: time.Now()}, 0)
}

// refetchingVerifier caches the JWKS forever and refetches it for an unknown key.
type refetchingVerifier struct {
	set interface {
		VerifySignature(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, error)
	}
}

func (c refetchingVerifier) verify(_ *jwt.JSONWebToken, raw string) error {
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return err
	}
	_, err = c.set.VerifySignature(context.Background(), signed)
	return err
}

// TestRotationUnderLoad rotates keys while three replicas on one store sign continuously. One of them starts
// during the rotation. Backends that cache the JWKS of any replica, with either strategy, accept every token
// when it is issued and shortly before it expires.
func TestRotationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		stores := []*sqlite.Store{open(t, dir, nil), open(t, dir, nil)}
		var rs replicas
		start := func() {
			s := newSigner(t, Config{Store: stores[len(rs)%2], Secret: secretA})
			run(t, s)
			rs = append(rs, s)
			time.Sleep(500 * time.Millisecond) // the replicas poll at different times
		}
		start()
		start()
		client := &http.Client{Transport: &rs}
		verifiers := map[string]verifier{}
		for i := range 2 {
			url := fmt.Sprintf("http://%d/", i)
			verifiers["refetching, "+url] = refetchingVerifier{rp.NewRemoteKeySet(client, url)}
			for phase := range 5 { // each fetches at another time
				p := &cachingVerifier{client: client, url: url, brief: phase > 0, expires: time.Now().Add(time.Duration(phase) * 1100 * time.Millisecond)}
				require.NoError(t, json.NewDecoder(rs[i].get(nil, http.MethodGet).Body).Decode(&p.set))
				verifiers[fmt.Sprintf("caching %d, %s", phase, url)] = p
			}
		}

		used := map[string]time.Time{} // first use of a key
		type late struct {
			token string
			at    time.Time
		}
		var waiting []late
		check := func(raw string) {
			t.Helper()
			token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
			require.NoError(t, err)
			for name, v := range verifiers {
				require.NoError(t, v.verify(token, raw), name)
			}
		}
		load := func(d, step time.Duration) {
			t.Helper()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(step) {
				var wg sync.WaitGroup
				tokens := make([]string, len(rs))
				for i, s := range rs {
					wg.Go(func() {
						var err error
						if tokens[i], err = s.Sign(t.Context(), caller); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				for _, raw := range tokens {
					check(raw)
					if id := kid(t, raw); used[id].IsZero() {
						used[id] = time.Now()
					}
				}
				if len(waiting) == 0 || time.Since(waiting[len(waiting)-1].at) > 5*time.Second {
					waiting = append(waiting, late{tokens[0], time.Now()})
				}
				for len(waiting) > 0 && time.Since(waiting[0].at) > 55*time.Second {
					check(waiting[0].token)
					waiting = waiting[1:]
				}
			}
		}

		load(7*time.Second, time.Second)
		var ids []string
		for i, pause := range []time.Duration{15 * time.Second, 1100 * time.Millisecond, 3 * time.Second, 15 * time.Second} {
			at := time.Now()
			id := rotate(t, Rotation{Store: stores[i%2], Secret: secretA})
			ids = append(ids, id)
			load(pause, 400*time.Millisecond)
			if i == 0 {
				require.WithinRange(t, used[id], at.Add(maxAge), at.Add(10*time.Second))
			}
			if i == 2 {
				start()
			}
		}
		last := ids[len(ids)-1]
		for _, s := range rs {
			require.Equal(t, last, kid(t, s.mustSign(t)))
			require.Len(t, s.kids(t), 1+len(ids))
		}
		load(70*time.Second, 3*time.Second) // until the last token of an old key has expired
		time.Sleep(retention)
		synctest.Wait()
		for _, s := range rs {
			require.Equal(t, []string{last}, s.kids(t))
		}
	})
}

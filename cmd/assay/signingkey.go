// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
	"assay/internal/auth/sign"
)

// secretKeyConfig holds the flags of the secret that encrypts signing keys in the store.
type secretKeyConfig struct {
	SecretKeyFile string `placeholder:"FILE" help:"File of 32 random bytes, raw, hexadecimal or base64, which encrypt signing keys and credentials in the store. Default: signing keys are not encrypted, and credentials with a key that is generated in the data directory."`
}

func (c *secretKeyConfig) problems() []error {
	var ck check
	_, err := c.secretKey()
	ck.err("secret-key-file", err)
	return ck.problems
}

// secretKey returns the 32 bytes of the secret file, or "" if none is configured.
func (c *secretKeyConfig) secretKey() (auth.Secret, error) {
	if c.SecretKeyFile == "" {
		return "", nil
	}
	text, err := readBounded(c.SecretKeyFile, maxSecretFile)
	if err != nil {
		return "", err
	}
	secret, err := sign.ParseSecret(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.SecretKeyFile, err)
	}
	return secret, nil
}

// secretKeyError returns an error of package sign as one of the configuration if the secret is missing or wrong.
func secretKeyError(err error) error {
	if errors.Is(err, seal.ErrNoSecret) || errors.Is(err, seal.ErrOtherSecret) {
		return usageError{fmt.Errorf("--secret-key-file: %w", err)}
	}
	return err
}

type signingKeyCmd struct {
	Rotate signingKeyRotateCmd `cmd:"" help:"Create a new signing key. Servers use it within 10 s; no request fails."`
	List   signingKeyListCmd   `cmd:"" help:"List the signing keys."`
}

type signingKeyRotateCmd struct {
	storeConfig
	secretKeyConfig
	ReplaceSecret bool `help:"Encrypt the new key with a different secret than the current key, or with none, after the secret was changed or lost. Restart the servers with the new secret within 5 minutes."`
}

func (c *signingKeyRotateCmd) problems() []error {
	return append(c.storeConfig.problems(), c.secretKeyConfig.problems()...)
}

// Run rotates the signing key.
func (c *signingKeyRotateCmd) Run(e *environment) error {
	secret, err := c.secretKey()
	if err != nil {
		return fmt.Errorf("--secret-key-file: %w", err)
	}
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		id, err := sign.Rotate(ctx, sign.Rotation{Store: s, Secret: secret, ReplaceSecret: c.ReplaceSecret})
		if err != nil {
			return secretKeyError(err)
		}
		e.say("servers sign with the key %s within 10 s", id)
		return nil
	})
}

type signingKeyListCmd struct {
	storeConfig
	listFormat
}

// signingKeyRow is the JSON form of a signing key in a list.
type signingKeyRow struct {
	ID             string     `json:"kid"`
	State          string     `json:"state"`
	Encrypted      bool       `json:"encrypted"`
	CreatedAt      *time.Time `json:"created_at"`
	RetiredAt      *time.Time `json:"retired_at"`
	PublishedUntil *time.Time `json:"published_until"`
	key            *assay.SigningKey
}

// Run lists signing keys.
func (c *signingKeyListCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		keys, err := s.FindSigningKeys(ctx)
		if err != nil {
			return err
		}
		rows := make([]signingKeyRow, len(keys))
		for i, k := range keys {
			state := "active"
			if !k.RetiredAt.IsZero() {
				state = "retired"
			}
			rows[i] = signingKeyRow{
				ID: k.ID, State: state, Encrypted: sign.Sealed(k), CreatedAt: jsonTime(k.CreatedAt), RetiredAt: jsonTime(k.RetiredAt),
				PublishedUntil: jsonTime(sign.PublishedUntil(k)), key: k,
			}
		}
		header := []string{"KID", "STATE", "ENCRYPTED", "CREATED", "RETIRED", "PUBLISHED UNTIL"}
		return writeList(e, c.Format, rows, header, func(r signingKeyRow) []string {
			encrypted := "no"
			if r.Encrypted {
				encrypted = "yes"
			}
			return []string{
				r.ID, r.State, encrypted, tableTime(r.key.CreatedAt), tableTime(r.key.RetiredAt), tableTime(sign.PublishedUntil(r.key)),
			}
		})
	})
}

// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/lists"
)

// connected is the answer to createInstallation.
type connected struct {
	Installation installationData `json:"installation"`
	Repositories []repositoryData `json:"repositories"` // those that were asked for
}

// createInstallation connects a source of kind git or local. The source is read first: one that cannot be read is a
// 422. A URL that is connected already gets the new credential. Another repository of the same owner with the same
// credential joins its installation.
func createInstallation(ctx context.Context, c *call) (any, error) {
	var write bool
	r := &source.Request{Organization: c.organization}
	if err := c.decode(ctx, fields{
		"write": &write, "kind": &r.Kind, "url": &r.URL, "username": &r.Credential.Username, "token": &r.Credential.Token,
		"ssh_key": &r.Credential.SSHKey, "known_hosts": &r.Credential.KnownHosts,
	}); err != nil {
		return nil, err
	}
	switch {
	case write && r.Kind == source.KindLocal:
		return nil, unprocessable(map[string]string{"write": "is not for local directories, which stay as they are"})
	case write && r.Credential.Token == "" && r.Credential.SSHKey == "":
		return nil, unprocessable(map[string]string{"write": "needs a token or an SSH key"})
	}
	made, err := c.cfg.Sources.Connect(ctx, r)
	if err != nil {
		return nil, err
	}
	i, err := c.installationFor(ctx, made, write)
	if err != nil {
		return nil, err
	}
	i.Status, i.LastError, i.Write = assay.InstallationActive, "", write
	if err := c.saveConnection(ctx, i, made); err != nil {
		return nil, err
	}
	if err := c.cfg.Store.StartOnboarding(ctx, c.organization); err != nil {
		return nil, err
	}
	all, err := c.inventory(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.ID != i.ID {
			continue
		}
		answer := connected{Installation: d, Repositories: []repositoryData{}}
		for _, r := range d.Repos {
			if slices.ContainsFunc(made.Repositories, func(m *assay.Repository) bool { return m.ID == r.ID }) {
				answer.Repositories = append(answer.Repositories, r)
			}
		}
		return answer, nil
	}
	return nil, assay.Errorf(assay.CodeNotFound, "the installation was deleted meanwhile")
}

// installationFor returns the installation that a connection belongs to, or a new one.
func (c *call) installationFor(ctx context.Context, made *source.Connection, write bool) (*assay.Installation, error) {
	installations, err := c.cfg.Store.Installations(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	repositories, err := c.cfg.Store.Repositories(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	var same *assay.Installation
	for _, i := range installations {
		if i.Provider != made.Provider || i.Account != made.Account {
			continue
		}
		for _, r := range repositories {
			if r.InstallationID == i.ID && r.URL == made.Repositories[0].URL {
				return i, nil
			}
		}
		// A credential that does not open is another one.
		if credential, err := c.cfg.Sources.Open(i); err == nil && credential.Same(made.Credential) && i.Write == write && same == nil {
			same = i
		}
	}
	if same != nil {
		return same, nil
	}
	return &assay.Installation{
		ID: uuid.NewString(), OrganizationID: c.organization, Provider: made.Provider, Account: made.Account, CreatedBy: c.subject,
	}, nil
}

// connectForge saves the authorization by a user of a source host. The installation of the same account is replaced.
// Repositories that it no longer reads stay, without access.
func (s *server) connectForge(ctx context.Context, state *assay.OnboardingState, made *source.Connection) error {
	installations, err := s.cfg.Store.Installations(ctx, state.OrganizationID)
	if err != nil {
		return err
	}
	i := &assay.Installation{ID: uuid.NewString(), OrganizationID: state.OrganizationID, Provider: made.Provider, ExternalID: made.ExternalID, CreatedBy: state.CreatedBy}
	for _, known := range installations {
		if known.Provider == made.Provider && known.ExternalID == made.ExternalID {
			i = known
		}
	}
	i.Account, i.OwnerID, i.Status, i.LastError, i.Write = made.Account, made.OwnerID, assay.InstallationActive, "", state.Write
	if err := s.saveConnection(ctx, i, made); err != nil {
		return err
	}
	names := lists.Map(made.Repositories, func(r *assay.Repository) string { return r.FullName })
	return s.deny(ctx, i, func(r *assay.Repository) bool { return !slices.Contains(names, r.FullName) })
}

// saveConnection saves an installation with the credential and the repositories of a connection.
func (s *server) saveConnection(ctx context.Context, i *assay.Installation, made *source.Connection) (err error) {
	if i.Credential, err = s.cfg.Sources.Seal(i.ID, made.Credential); err != nil {
		return err
	}
	if err := s.cfg.Store.SaveInstallation(ctx, i); err != nil {
		return err
	}
	for _, r := range made.Repositories {
		r.OrganizationID, r.InstallationID = i.OrganizationID, i.ID
	}
	return s.cfg.Store.SaveRepositories(ctx, i.OrganizationID, made.Repositories)
}

// deleteInstallation disconnects a source and deletes the data on its repositories.
func deleteInstallation(ctx context.Context, c *call) (any, error) {
	id, ok := canonicalID(c.ids[0])
	err := error(assay.Errorf(assay.CodeNotFound, ""))
	if ok {
		err = c.cfg.Store.DeleteInstallation(ctx, c.organization, id)
	}
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, assay.Errorf(assay.CodeNotFound, "there is no installation with this id")
	}
	return nil, err
}

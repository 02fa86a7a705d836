// SPDX-License-Identifier: Apache-2.0

//go:build faults && unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"assay"
)

// crashDir is the environment variable with a directory of files whose names are points of runs. The process that
// reaches such a point removes the file and dies of SIGKILL. The points are
//
//	TYPE.PHASE.started    the phase has begun
//	TYPE.PHASE.note       a note of the phase is saved
//	TYPE.PHASE.completed  the phase is done, and that is not saved
//	TYPE.PHASE.saved      it is saved, and the next phase has not begun
//	save-patch, save-fix, save-review  these are not saved
const crashDir = "FAULTS_CRASH_DIR"

// runStore returns the store for runs, which kills this process at the points in crashDir.
func runStore(s assay.CodebaseStore) assay.CodebaseStore {
	if dir := os.Getenv(crashDir); dir != "" {
		return &crashingStore{s, dir}
	}
	return s
}

type crashingStore struct {
	assay.CodebaseStore
	dir string
}

func (s *crashingStore) reach(point string) {
	if os.Remove(filepath.Join(s.dir, point)) == nil {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// UpdateRun implements assay.CodebaseStore.
func (s *crashingStore) UpdateRun(ctx context.Context, holder string, r *assay.Run, events []assay.RunEvent) error {
	for _, e := range events {
		if e.Transition == "completed" {
			s.reach(r.Type + "." + e.Phase + ".completed")
		}
	}
	if err := s.CodebaseStore.UpdateRun(ctx, holder, r, events); err != nil {
		return err
	}
	for _, e := range events {
		point := e.Transition
		switch point {
		case "completed":
			point = "saved"
		case "":
			point = e.Name
		}
		s.reach(r.Type + "." + e.Phase + "." + point)
	}
	return nil
}

// SaveReview implements assay.CodebaseStore.
func (s *crashingStore) SaveReview(ctx context.Context, holder string, r *assay.Run, repo *assay.Repository, findings []*assay.CodeFinding) error {
	s.reach("save-review")
	return s.CodebaseStore.SaveReview(ctx, holder, r, repo, findings)
}

// SaveFix implements assay.CodebaseStore.
func (s *crashingStore) SaveFix(ctx context.Context, holder, runID string, ids []string, f assay.CodeFix) error {
	s.reach("save-fix")
	return s.CodebaseStore.SaveFix(ctx, holder, runID, ids, f)
}

// SavePatch implements assay.CodebaseStore.
func (s *crashingStore) SavePatch(ctx context.Context, holder, runID string, patch []byte) error {
	s.reach("save-patch")
	return s.CodebaseStore.SavePatch(ctx, holder, runID, patch)
}

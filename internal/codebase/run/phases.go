// SPDX-License-Identifier: Apache-2.0

package run

import "assay"

// Phase is a phase of a type of run.
type Phase struct{ Key, Label string }

var (
	checkout   = Phase{"checkout", "Check out"}
	verifying  = Phase{"verify", "Verify"}
	publishing = Phase{"publish", "Publish"}
	detecting  = Phase{"detect", "Detect"}

	phases = map[string][]Phase{
		assay.RunReview:          {checkout, {"scan", "Scan"}, {"correlate", "Correlate"}, {"report", "Report"}},
		assay.RunFix:             {checkout, {"plan", "Plan"}, {"change", "Change"}, verifying, publishing},
		assay.RunInstrumentation: {checkout, detecting, {"instrument", "Instrument"}, verifying, publishing},
		assay.RunMigration:       {checkout, detecting, {"translate", "Translate"}, verifying, publishing},
	}
)

// Phases returns the phases of a type of run, in order.
func Phases(runType string) []Phase { return phases[runType] }

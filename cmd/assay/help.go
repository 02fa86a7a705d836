// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/alecthomas/kong"

// flagGroups are the headings of flags in the help and in docs/configuration.md. The tag
// group of a flag, or of the struct that contains it, is the key of its group. Flags for
// tuning have the tag hidden: only --help-all and the document show them.
var flagGroups = []kong.Group{
	{Key: "common", Title: "Common flags:"},
	{Key: "store", Title: "Store and replicas:"},
	{Key: "listeners", Title: "Listeners:"},
	{Key: "auth", Title: "Authentication:"},
	{Key: "dashboard", Title: "Dashboard:"},
	{Key: "scoring", Title: "Scoring:"},
	{Key: "limits", Title: "Limits:"},
	{Key: "logvolume", Title: "Log volume:"},
	{Key: "cost", Title: "Cost:"},
	{Key: "summaries", Title: "Summaries:"},
	{Key: "agent", Title: "Agent:"},
	{Key: "webhooks", Title: "Webhooks:"},
	{Key: "logging", Title: "Logging:"},
}

// helpAll is the flag that prints the help with hidden flags.
type helpAll bool

// IgnoreDefault implements kong.IgnoreDefault.
func (helpAll) IgnoreDefault() {}

// BeforeReset prints the help and ends the command, as kong's own --help does.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	for _, flags := range ctx.Flags() {
		flags.Hidden = false
	}
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"assay/internal/review/instrumentation"
	"assay/internal/rules/semconv"
)

var attributeLevel = &Check{
	ID:       "attribute-level",
	Title:    "Attribute is set at the wrong level",
	Category: Governance,
	Severity: Medium,
	Rules:    []string{"RES-004"},
	Why: "A resource describes the process that sends telemetry, a span one operation of it. An attribute of the resource on every span costs its bytes " +
		"each time, and an attribute of an operation on the resource is wrong for all other operations.",
	Fix: "Set attributes of the process, such as `service.name` or `host.name`, on the resource of the SDK, and attributes of an operation, " +
		"such as `http.route`, on its span.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		for _, a := range u.Attributes {
			r := semconv.Find([]byte(a.Name))
			var message string
			switch a.On {
			case instrumentation.OnResource:
				if !r.MisplacedOnResource() || r.Deprecated {
					continue
				}
				message = fmt.Sprintf("The conventions do not place `%s` on resources.", a.Name)
			case instrumentation.OnSpan, instrumentation.OnLog:
				if !r.MisplacedOnRecord() && (a.On != instrumentation.OnSpan || r.Levels != semconv.Resource|semconv.Log) || r.Deprecated {
					continue
				}
				message = fmt.Sprintf("The conventions place `%s` on resources, not on a %s.", a.Name, a.On)
			default:
				continue
			}
			p.mark(u, a.Node, Finding{Subject: a.Name, Message: message, Names: attributeNames(u, a)})
		}
	},
}

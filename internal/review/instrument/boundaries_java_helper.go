// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"assay/internal/lists"
)

//go:embed helpers_java.java
var javaHelperParts string

// javaSection is a part of the helper class.
type javaSection struct {
	helperPart
	imports []string // full names; "%EE%" stands for javax or jakarta
}

var javaImport = regexp.MustCompile(`(?m)^import (\S+);\n`)

// javaSections returns the sections of the helper class in order. The first section is "core", which every class has.
var javaSections = sync.OnceValue(func() (sections []javaSection) {
	for _, p := range helperParts(javaHelperParts) {
		s := javaSection{helperPart: p}
		s.imports = lists.Map(javaImport.FindAllStringSubmatch(p.text, -1), func(m []string) string { return m[1] })
		s.text = javaImport.ReplaceAllString(p.text, "")
		sections = append(sections, s)
	}
	return sections
})

// javaHelper returns the source of the helper class with the given sections and the sections that they depend on. The
// instrumentation scope is the package, or the name of the service if there is no package.
func javaHelper(pkg, class, service string, sections map[string]bool, ee string, global javaGlobal) string {
	imports := map[string]bool{}
	body := ""
	closure := javaClosure(sections)
	for _, s := range javaSections() {
		if !closure[s.name] {
			continue
		}
		for _, i := range s.imports {
			imports[strings.ReplaceAll(i, "%EE%", ee)] = true
		}
		body += s.text
	}
	head, scope := "", service
	if pkg != "" {
		head, scope = "package "+pkg+";\n\n", pkg
	}
	groups := [2]string{}
	for _, i := range slices.Sorted(maps.Keys(imports)) {
		group := 0
		if strings.HasPrefix(i, "java.") {
			group = 1
		}
		groups[group] += "import " + i + ";\n"
	}
	head += groups[0] + "\n" + groups[1]
	fill := strings.NewReplacer(
		"%CLASS%", class, "%SCOPE%", strconv.Quote(scope),
		"%GET%", global.get, "%SET%", global.set,
	)
	return fill.Replace(head+body) + "}\n"
}

// javaClosure returns the sections, "core", and all sections that they depend on.
func javaClosure(sections map[string]bool) map[string]bool {
	all := map[string]bool{"core": true}
	maps.Copy(all, sections)
	for size := 0; size < len(all); {
		size = len(all)
		for _, s := range javaSections() {
			for _, need := range s.needs {
				if all[s.name] {
					all[need] = true
				}
			}
		}
	}
	return all
}

// javaGlobal describes how the helper class accesses the global OpenTelemetry instance.
type javaGlobal struct {
	get string // method of GlobalOpenTelemetry
	set string // additional condition for recording a duration
}

var (
	// javaAgentGlobal is for the Java agent, which sets the global instance before the program starts.
	javaAgentGlobal = javaGlobal{get: "get"}
	// javaSDKGlobal is for programs that set the global instance later: get would set it to a no-op instance. It needs
	// version 1.57 of the API.
	javaSDKGlobal = javaGlobal{get: "getOrNoop", set: " && GlobalOpenTelemetry.isSet()"}
)

// javaHelperMark is a sentence in the documentation of every helper class, which identifies the class.
const javaHelperMark = "An operation with a span, and with a duration where the conventions of OpenTelemetry have a metric for it."

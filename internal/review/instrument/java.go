// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"path"
	"slices"
	"strings"
)

const (
	javaAgentOption = "-javaagent:"
	javaAgentFile   = "/opt/opentelemetry/opentelemetry-javaagent.jar"
	javaAgentURL    = "https://github.com/open-telemetry/opentelemetry-java-instrumentation/releases/download/v" + javaAgent + "/opentelemetry-javaagent.jar"
)

// javaServers lists artifacts that only services depend on.
var javaServers = []string{
	"org.springframework.boot:", "io.quarkus:", "io.micronaut:", "io.dropwizard:", "io.vertx:", "io.javalin:", "com.sparkjava:", "org.eclipse.jetty:", "org.apache.tomcat.embed:",
	"io.undertow:", "io.helidon.", "io.ktor:", "io.grpc:", "com.linecorp.armeria:", "org.apache.kafka:", "com.rabbitmq:", "org.springframework:",
}

var javaSDKs = []string{
	"io.opentelemetry:opentelemetry-sdk", "io.opentelemetry.instrumentation:opentelemetry-spring-boot", "io.quarkus:quarkus-opentelemetry", "io.micrometer:micrometer-tracing-bridge-otel",
	"io.micronaut.tracing:", "com.datadoghq:dd-java-agent", "com.datadoghq:dd-trace", "co.elastic.apm:", "com.newrelic.agent.java:",
}

// java adds the Java agent to the images of a service. It reports whether the project is a service.
func (s *service) java() bool {
	m := s.manifests[0]
	if _, server := s.has(javaServers...); !server {
		return false
	}
	if found, ok := s.setUpBy(slices.Concat(javaSDKs, javaVendors)...); ok {
		s.leave(m.Path, 0, "Nothing is added to the program: "+found+" sets up telemetry")
		return true
	}
	if file, line := s.setUpIn(); file != "" { // with the dependencies of a parent
		s.leave(file, line, setUpHere)
		return true
	}
	started := false
	var options []variable
	agent := variable{name: "JAVA_TOOL_OPTIONS", value: javaAgentOption + javaAgentFile, mark: javaAgentOption, image: true}
	images := s.dockerfiles(runtimeJava)
	for _, f := range images {
		if mentions(f, javaAgentOption) {
			started = true
			if setsVariable(f, agent.name, agent.mark) {
				options = []variable{agent}
			}
			continue
		}
		stage, ok := s.stageOf(f)
		if !ok {
			continue
		}
		line, ok := s.before(f, stage,
			"ADD --chmod=0644 "+javaAgentURL+" "+javaAgentFile,
			"ENV OTEL_SERVICE_NAME="+quoteDocker(s.name)+" \\", "    JAVA_TOOL_OPTIONS="+quoteOptions(agent.name, agent.value))
		if ok {
			s.did(f.Path, line, "Add the Java agent "+javaAgent+" to the image and start it with the program")
			options = []variable{agent}
		}
		started = true
	}
	if !started {
		s.leave(m.Path, 0, "Start the program with `-javaagent:"+path.Base(javaAgentFile)+"`, from "+strings.TrimSuffix(javaAgentURL, "/"+path.Base(javaAgentURL))+": no Dockerfile that starts it was found")
	}
	s.deployments(images, nil, options...)
	return true
}

// SPDX-License-Identifier: Apache-2.0

package orders

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// unit is the unit of orders.count.
const unit = ""

const metrics = `{"resourceMetrics": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "orders"}}]},
	"scopeMetrics": [{"scope": {"name": "orders"}, "metrics": [{"name": "orders.count", "unit": "%s", "sum":
	{"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{"asInt": "%d", "timeUnixNano": "%d"}]}}]}]}]}`

// Total returns the sum of the quantities.
func Total(quantities ...int) int {
	sum := 0
	for _, q := range quantities {
		sum += q
	}
	return sum
}

// Send sends the number of orders.
func Send(n int) error {
	host := strings.TrimPrefix(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	body := fmt.Sprintf(metrics, unit, n, time.Now().UnixNano())
	fmt.Fprintf(conn, "POST /v1/metrics HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.Contains(status, " 200 ") {
		err = fmt.Errorf("send metrics: %s", status)
	}
	return err
}

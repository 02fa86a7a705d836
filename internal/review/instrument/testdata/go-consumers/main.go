// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"example.com/orders/orders"
)

func main() {
	ctx := context.Background()
	jobs := cron.New()
	if _, err := jobs.AddFunc("@hourly", func() { cleanUp() }); err != nil {
		panic(err)
	}
	if _, err := jobs.AddFunc("@daily", report); err != nil {
		panic(err)
	}
	jobs.Start()
	defer jobs.Stop()
	if err := orders.Run(ctx); err != nil {
		fmt.Println("run:", err)
	}
}

func cleanUp() { fmt.Println("clean up") }

func report() { fmt.Println("report") }

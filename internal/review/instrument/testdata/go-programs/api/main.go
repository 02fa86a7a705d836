// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"example.com/programs/routes"
)

func main() {
	fmt.Println(http.ListenAndServe(":8080", routes.New().Handler()))
}

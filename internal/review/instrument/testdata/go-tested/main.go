// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
)

func main() { fmt.Println(http.ListenAndServe(":8080", http.NotFoundHandler())) }

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/gofiber/fiber/v2"
)

func main() {
	app := fiber.New()
	app.Get("/items/:id", func(c *fiber.Ctx) error {
		if c.Params("id") == "0" {
			return errors.New("no item")
		}
		return c.SendString("item " + c.Params("id"))
	})
	fmt.Println(app.Listen(":8080"))
}

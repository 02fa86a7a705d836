// SPDX-License-Identifier: Apache-2.0

// Package routes has the routers of a program.
package routes

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
)

// Server has routers.
type Server struct {
	echo  *echo.Echo
	admin http.Handler
}

// New returns a server.
func New() *Server {
	return &Server{echo: echo.New(), admin: gin.New()}
}

// Handler returns the public router.
func (s *Server) Handler() http.Handler { return s.echo }

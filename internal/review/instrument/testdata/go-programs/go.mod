module example.com/programs

go 1.26.0

require (
	github.com/gin-gonic/gin v1.11.0
	github.com/labstack/echo/v4 v4.16.0
)

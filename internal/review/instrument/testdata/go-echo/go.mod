module example.com/echo

go 1.26.0

require github.com/labstack/echo/v4 v4.16.0

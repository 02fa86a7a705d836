module example.com/api

go 1.24

require github.com/gin-gonic/gin v1.10.0

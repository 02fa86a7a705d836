module example.com/mux

go 1.26.0

require github.com/gorilla/mux v1.8.1

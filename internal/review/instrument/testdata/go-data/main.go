// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log"
	"net/http"
	"os"

	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"gorm.io/gorm"
)

type stores struct {
	pool  *pgxpool.Pool
	conn  *pgx.Conn
	cache *redis.Client
	docs  *mongo.Client
	orm   *gorm.DB
	rows  *sqlx.DB
	db    *sql.DB
}

func open(ctx context.Context, connector driver.Connector) (s stores, err error) {
	if s.pool, err = pgxpool.New(ctx, os.Getenv("DATABASE_URL")); err != nil {
		return s, err
	}
	config, err := pgxpool.ParseConfig(os.Getenv("REPLICA_URL"))
	if err != nil {
		return s, err
	}
	config.MaxConns = 2
	replica, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return s, err
	}
	replica.Close()
	if s.conn, err = pgx.Connect(ctx, os.Getenv("DATABASE_URL")); err != nil {
		return s, err
	}
	s.cache = redis.NewClient(&redis.Options{
		Addr: "localhost:6379",
	})
	if s.docs, err = mongo.Connect(ctx, options.Client().ApplyURI("mongodb://localhost")); err != nil {
		return s, err
	}
	if s.orm, err = gorm.Open(sqlite.Open("shop.db"), &gorm.Config{}); err != nil {
		return s, err
	}
	s.rows = sqlx.MustConnect("sqlite", "shop.db")
	s.db = sql.OpenDB(connector)
	return s, nil
}

func main() {
	s, err := open(context.Background(), nil)
	if err != nil {
		log.Print(err)
		return
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := s.db.PingContext(r.Context()); err != nil {
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: ":8080"}
	log.Print(server.ListenAndServe())
}

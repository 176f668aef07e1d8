package kopf_test

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func timed(next kopf.Handler[*Database]) kopf.Handler[*Database] {
	return func(ctx context.Context, req *DatabaseRequest) error {
		defer func(began time.Time) {
			log.FromContext(ctx).Info("Handler returned", "duration", time.Since(began))
		}(time.Now())
		return next(ctx, req)
	}
}

func ExampleResource_Use() {
	kopf.For(&Database{}).
		OnCreate("provision", provision). // without timing, because the handler is added before Use
		Use(timed).
		OnUpdate("announce", announce).
		OnDelete("drop", drop)
}

func ExampleMiddleware() {
	var polite kopf.Middleware[*Database] = func(next kopf.Handler[*Database]) kopf.Handler[*Database] {
		return func(ctx context.Context, req *DatabaseRequest) error {
			fmt.Println("hello,", req.Object.Name)
			return next(ctx, req)
		}
	}
	handler := polite(func(context.Context, *DatabaseRequest) error {
		fmt.Println("working")
		return nil
	})
	orders := &Database{}
	orders.Name = "orders"
	fmt.Println(handler(context.Background(), &DatabaseRequest{Object: orders}))
	// Output:
	// hello, orders
	// working
	// <nil>
}

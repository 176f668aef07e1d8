package explain_test

import (
	"fmt"
	"os"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

func ExampleExplanation_Write() {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	due := now.Add(40 * time.Second)
	explanation := explain.Explanation{
		Kind: "Database", Namespace: "shop", Name: "orders", Source: explain.FromOperator, Time: now,
		Cause: "update", Changed: []string{"spec.size"},
		Handlers: []explain.Handler{
			{ID: "resize", Kind: "cause", State: explain.Waiting, Attempts: 2, Due: &due, LastError: "the quota is exhausted"},
			{ID: "announce", Kind: "cause", State: explain.Blocked, Why: `it comes after "resize"`},
			{ID: "audit", Kind: "cause", State: explain.Filtered, Why: `metadata.labels["tier"] does not match: "silver", wanted Equal(gold)`},
		},
	}
	if err := explanation.Write(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Database shop/orders: update: the object has changed since it was handled (spec.size)
	//   HANDLER   KIND   STATE     ATTEMPTS  WHY
	//   resize    cause  waiting   2         next in 40s; last error: the quota is exhausted
	//   announce  cause  blocked   0         it comes after "resize"
	//   audit     cause  filtered  0         metadata.labels["tier"] does not match: "silver", wanted Equal(gold)
}

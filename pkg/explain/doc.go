// Package explain contains the types that describe why an operator calls an object's handlers, or doesn't.
//
// An [Explanation] describes what an operator does with one object: the cause, and for each handler its state and the reason for it.
// [github.com/kopf-runtime/kopf-runtime/pkg/kopf.Operator.Explain] computes it, and an operator with kopf.WithStatusPage serves it. The
// command "kopf why" prints it.
//
//	explanation, err := operator.Explain(ctx, &Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}})
//	explanation.Write(os.Stdout)
//
// Explanations contain the values of labels and fields that filters test, but not the values of annotations or of Secrets' fields. Errors
// of handlers may contain any text.
package explain

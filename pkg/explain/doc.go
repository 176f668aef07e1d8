// Package explain contains the types that describe why an operator calls the handlers of an object, or does not call them.
//
// An [Explanation] describes what an operator does with one object: the cause, and for each handler its state and the reason for the state.
// [github.com/kopf-runtime/kopf-runtime/pkg/kopf.Operator.Explain] computes it, and the operator serves it with kopf.WithStatusPage. The command "kopf why" prints it.
//
//	explanation, err := operator.Explain(ctx, &Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}})
//	explanation.Write(os.Stdout)
//
// Explanations contain the values of labels and fields that filters test. They do not contain values of annotations, or values of the fields of Secrets. Errors of handlers
// may contain any text.
package explain

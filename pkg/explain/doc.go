// Package explain contains the answer to the question why a handler was not called.
//
// An [Explanation] describes what an operator does with one object: the cause, and for each handler whether it is called, and if not, why.
// [github.com/kopf-runtime/kopf-runtime/pkg/kopf.Operator.Explain] computes it, and the operator serves it with kopf.WithStatusPage. The command "kopf why" prints it.
//
//	explanation, err := operator.Explain(ctx, &Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}})
//	explanation.Write(os.Stdout)
//
// Explanations contain the values of labels, and of fields that filters test. They contain no values of Secrets, and no values of annotations. Errors of handlers may contain
// any text.
package explain

// Package preview contains the types that describe what an operator would do with all objects of a cluster.
//
// [github.com/kopf-runtime/kopf-runtime/pkg/kopf.Operator.Preview] computes a [Report] before a new version of an operator is deployed:
//
//	report, err := kopf.New(mgr, databases).Preview(ctx) // the manager is not started
//	if err != nil {
//		return err
//	}
//	err = report.WriteText(os.Stdout)
//
// It describes the first reconcile of each object in a new process. What handlers then change, and what follows from it, is not part of it.
package preview

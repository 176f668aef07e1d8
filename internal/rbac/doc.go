// Package rbac finds the missing RBAC rule when the API server rejects a request as forbidden.
//
//	err = rbac.Explain(err) // ...: add an RBAC rule with apiGroups: [example.com], resources: [databases/status], verbs: [patch] ...
package rbac

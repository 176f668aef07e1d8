// Package rbac finds the RBAC rule that is missing when the API server answers that a request is forbidden.
//
//	err = rbac.Explain(err) // ...: grant it by a rule with apiGroups: [example.com], resources: [databases/status], verbs: [patch] ...
package rbac

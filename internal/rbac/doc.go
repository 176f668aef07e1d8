// Package rbac describes the permissions that an operator needs, and finds the missing ones.
//
//	missing, err := rbac.Review(ctx, client, needs) // sends reviews to the API server
//	err = rbac.WriteRoles(w, options, needs)        // writes roles as YAML
//	err = rbac.Explain(err)                         // ...: add an RBAC rule with apiGroups: [example.com], resources: [databases/status] ...
package rbac

// Package garbagecollection tests behavior that needs the controllers of Kubernetes: the deletion of children
// together with their parent, and operators that handle deployments and their replica sets. It contains only tests.
// Without kube-controller-manager, the tests skip themselves. Run make controller-manager to install it.
package garbagecollection

// Package garbagecollection proves what needs the controllers of Kubernetes: that children go with their parent, and that
// deployments can be handled along with the replica sets that Kubernetes makes of them. There is nothing in it but
// tests; without kube-controller-manager (make controller-manager) they are skipped.
package garbagecollection

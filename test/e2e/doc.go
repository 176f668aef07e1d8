// Package e2e proves the behaviour of whole operators on a real kube-apiserver with its etcd.
// There is nothing in it but tests.
package e2e

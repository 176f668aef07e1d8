// Package e2e tests the behaviour of whole operators on a real kube-apiserver with etcd. It contains only tests.
package e2e

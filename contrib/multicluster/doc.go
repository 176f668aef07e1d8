// Package kopfmulticluster runs an operator in each cluster of a multicluster-runtime manager.
//
//	err := kopfmulticluster.Setup(mgr, func(c kopfmulticluster.Cluster) []kopf.Option {
//		return []kopf.Option{kopf.For(&v1.Database{}).OnCreate("provision", provision)}
//	})
//
// The provider of the manager decides which clusters are engaged. Each operator has the client, the cache and the connections of its cluster, and shares only
// the process with the others.
//
// # Caveats
//
//   - The label "kind" of metrics, and the label "controller" of controller-runtime, contain the name of the cluster: "east/database". Metrics without these
//     labels are for all clusters, and kopf_paused and kopf_peers have the values of the last cluster that has set them.
//   - The operators cannot have admission handlers or a status page, because all clusters share the servers of the manager.
//   - EnableWarmup has no effect, because the operators start on the leader.
package kopfmulticluster

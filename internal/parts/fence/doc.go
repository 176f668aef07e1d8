// Package fence pauses an operator after its process was suspended, because a different replica may have become the leader.
package fence

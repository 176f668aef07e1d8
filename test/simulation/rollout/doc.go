// Package rollout simulates rollouts of revisions with upgrades, rollbacks, crashes, users' edits and faults at random times.
package rollout

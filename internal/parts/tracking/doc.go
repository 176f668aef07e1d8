// Package tracking triggers reconcile handlers when objects change that they have read with Track.
package tracking

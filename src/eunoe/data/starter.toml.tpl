# @what@: @train@ training samples, @test@ test samples, @outputs@, @count@ clients.
# All options: eunoe options; those of a section: eunoe options training.

# The seed of all random numbers; run several seeds before you trust a difference.
seed = 0
rounds = 50
# Clients per round: a share of all, or a number.
participation = @participation@

[data]
@data@

[partition]
@partition@

[split]
# Of each client's training samples: models are chosen on the validation part, never on test data.
validation = 0.1
@evaluation@
[model]
# Others: eunoe list models.
name = "@model@"

[training]
# Local training of a client in a round; tune lr first: eunoe tune.
epochs = @epochs@
batch_size = @batch_size@
lr = @lr@

[loss]
# @loss_note@; others: eunoe list losses.
name = "@loss@"@class_weights@

[method]
# local trains every client alone, central on all samples; others: eunoe list methods.
name = "fedavg"

[engine]
# All cores; vectorized is faster for small models.
name = "process"

"""Lists of items in closed form: soft-thresholded singular values of the likes, divided by powers of counts.

With X the likes, 0 where there is none, and the counts ``D_u``, ``D_i`` of users and items,

    ``min_M ½‖R − M‖_F² + λ‖M‖_*``,   ``R = D_u^(−a) X D_i^(−b)``,

is the trace-norm problem over all pairs, weighted by counts on both sides. Its optimum is
``M = U diag(σ − λ) Vᵀ`` (:mod:`labelgap.solvers.soft_threshold`). A pair scores ``D_u^a M D_i^b``. Since
``M = R V diag(1 − λ/σ) Vᵀ``, that is a sum over the user's own likes. So a new user costs one product, and
every like's part in a score is known exactly.
"""
